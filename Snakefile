# Snakemake finds workflow/Snakefile by itself; this file serves tools that look for one here.
include: "workflow/Snakefile"


rule study:
    default_target: True
    input:
        rules.all.input,
    localrule: True
