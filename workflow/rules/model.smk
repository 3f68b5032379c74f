# The base model: made here and pretrained, or read from what was fetched.


rule base_model:
    input:
        study=ancient(STUDY),
        prefetched=ancient(PREFETCHED if HUB_MODEL else []),
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
    params:
        data=subpath(input.train, parent=True),
        model=options(study.model),
    message:
        "Preparing the base model ({params.model[source]})"
    shell:
        "exec python -m hargo model prepare --config {input.study} --data {params.data} --out {output} > {log} 2>&1"


if study.pretrain:

    rule pretrain:
        input:
            study=ancient(STUDY),
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
            mem_mb=mem_mb_train,
            runtime=runtime_train,
            gpu=GPU,
        params:
            data=subpath(input.train, parent=True),
            out=subpath(output.run, parent=True),
            checkpoints=f"{RESULTS}/checkpoints/pretrain",
            pretrain=options(study.pretrain, "checkpoint_every"),
            compute=COMPUTE,
        message:
            "Pretraining for {params.pretrain[steps]} steps"
        shell:
            "exec python -m hargo pretrain --config {input.study} --model {input.model} --data {params.data}"
            " --out {params.out} --checkpoints {params.checkpoints} > {log} 2>&1"
