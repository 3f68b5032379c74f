# What comes from the network, the rows, and their audit.


if study.data.source == "hub":

    rule prefetch_data:
        output:
            touch(str(FOLDER.prefetch / "data.done")),
        log:
            "<logs>/prefetch_data.log",
        benchmark:
            "<benchmarks>/prefetch_data.tsv"
        localrule: True
        conda:
            "../envs/hargo.yaml"
        threads: 1
        resources:
            mem_mb=2000,
            runtime=60,
        params:
            study=STUDY,
            data=options(study.data, include=["source", "path", "revision"]),
        message:
            "Fetching {params.data[path]} from the Hub"
        shell:
            "unset HF_HUB_OFFLINE HF_DATASETS_OFFLINE TRANSFORMERS_OFFLINE; "
            "exec python -m hargo data prefetch --config {params.study} > {log} 2>&1"


rule data:
    input:
        prefetched=(
            str(FOLDER.prefetch / "data.done") if study.data.source == "hub" else []
        ),
        files=DATA_FILES,
    output:
        train=str(FOLDER.data / "train.jsonl"),
        eval=str(FOLDER.data / "eval.jsonl"),
        manifest=str(FOLDER.data / "manifest.json"),
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
        gpu=0,
    params:
        study=STUDY,
        out=subpath(output.train, parent=True),
        data=options(study.data),
        tasks=study.tasks,
        files=stamp(DATA_FILES),
        code=code("data"),
    message:
        "Building the rows ({params.data[source]}, protocol {params.data[protocol]})"
    shell:
        "exec python -m hargo data build --config {params.study} --out {params.out} > {log} 2>&1"


rule audit:
    input:
        train=rules.data.output.train,
        eval=rules.data.output.eval,
        manifest=rules.data.output.manifest,
    output:
        json=str(FOLDER.audit / "audit.json"),
        text=str(FOLDER.audit / "audit.md"),
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
        gpu=0,
    params:
        study=STUDY,
        data=subpath(input.train, parent=True),
        out=subpath(output.json, parent=True),
        code=code("audit"),
    message:
        "Auditing the rows for duplicates, conflicts and leaks"
    shell:
        "exec python -m hargo data audit --config {params.study} --data {params.data} --out {params.out} > {log} 2>&1"


# Not part of `all`: snakemake ... verify
rule verify:
    input:
        train=rules.data.output.train,
        eval=rules.data.output.eval,
    output:
        json=str(FOLDER.verify / "verify.json"),
        text=str(FOLDER.verify / "verify.md"),
        verdicts=str(FOLDER.verify / "verdicts.jsonl"),
    log:
        "<logs>/verify.log",
    benchmark:
        "<benchmarks>/verify.tsv"
    conda:
        "../envs/hargo.yaml"
    threads: 2
    resources:
        mem_mb=mem_mb_light,
        runtime=60,
        gpu=0,
    params:
        data=subpath(input.train, parent=True),
        out=subpath(output.json, parent=True),
        # labels of generated kernels must hold; in data from elsewhere, a refuted label is a finding
        must_hold="--must-hold" if study.data.source == "embedded" else "",
        limit=100,
    message:
        "Running {params.limit} kernels under ThreadSanitizer and Archer"
    shell:
        "exec python -m hargo data verify --data {params.data} --out {params.out} --limit {params.limit}"
        " --jobs {threads} {params.must_hold} > {log} 2>&1"
