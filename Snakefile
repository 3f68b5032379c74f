# Snakemake looks here first; everything is in workflow/Snakefile.
include: "workflow/Snakefile"


rule study:
    default_target: True
    input:
        rules.all.input,
    localrule: True
