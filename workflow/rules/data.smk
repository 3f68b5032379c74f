# The resolved study, what comes from the network, the rows, and their audit.


rule study:
    output:
        STUDY,
    log:
        "<logs>/study.log",
    benchmark:
        "<benchmarks>/study.tsv"
    localrule: True
    conda:
        "../envs/hargo.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=5,
    params:
        study=study.model_dump_json(),
    message:
        "Writing the resolved study to {output}"
    shell:
        "printf %s {params.study:q} | python -m hargo config resolve --config /dev/stdin --out {output} > {log} 2>&1"


rule prefetch:
    input:
        study=ancient(STUDY),
    output:
        touch(PREFETCHED),
    log:
        "<logs>/prefetch.log",
    benchmark:
        "<benchmarks>/prefetch.tsv"
    localrule: True
    conda:
        "../envs/hargo.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        data=[study.data.source, study.data.path, study.data.revision],
        model=[
            study.model.source,
            study.model.path,
            study.model.file,
            study.model.revision,
        ],
        cache=str(study.prefetch.cache),
    message:
        "Fetching data and model from the network into {params.cache}"
    shell:
        "unset HF_HUB_OFFLINE HF_DATASETS_OFFLINE TRANSFORMERS_OFFLINE; "
        "exec python -m hargo model prefetch --config {input.study} > {log} 2>&1"


rule data:
    input:
        study=ancient(STUDY),
        prefetched=ancient(PREFETCHED if HUB_DATA else []),
        files=data_files(),
    output:
        train="<results>/data/train.jsonl",
        eval="<results>/data/eval.jsonl",
        manifest="<results>/data/manifest.json",
    log:
        "<logs>/data.log",
    benchmark:
        "<benchmarks>/data.tsv"
    conda:
        "../envs/hargo.yaml"
    threads: 1
    resources:
        mem_mb=mem_mb_light,
        runtime=30,
    params:
        out=subpath(output.train, parent=True),
        data=options(study.data),
        tasks=study.tasks,
    message:
        "Building the rows ({params.data[source]}, protocol {params.data[protocol]})"
    shell:
        "exec python -m hargo data build --config {input.study} --out {params.out} > {log} 2>&1"


rule audit:
    input:
        study=ancient(STUDY),
        train=rules.data.output.train,
        eval=rules.data.output.eval,
        manifest=rules.data.output.manifest,
    output:
        json="<results>/audit/audit.json",
        text="<results>/audit/audit.md",
    log:
        "<logs>/audit.log",
    benchmark:
        "<benchmarks>/audit.tsv"
    conda:
        "../envs/hargo.yaml"
    threads: 1
    resources:
        mem_mb=mem_mb_light,
        runtime=30,
    params:
        data=subpath(input.train, parent=True),
        out=subpath(output.json, parent=True),
    message:
        "Auditing the rows: duplicates, conflicts, leaks"
    shell:
        "exec python -m hargo data audit --config {input.study} --data {params.data} --out {params.out} > {log} 2>&1"
