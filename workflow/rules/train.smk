# Everything that is trained: pre-training, SFT and every method, each from the model that its `start` names.


rule train:
    input:
        start=start_files,
        train=rules.data.output.train,
        pairs=pairs_file,
    output:
        model=directory(str(FOLDER.model("{run}", "{seed}"))),
        kept=directory(str(FOLDER.kept("{run}", "{seed}"))),
        metrics=str(FOLDER.run("{run}", "{seed}") / "metrics.jsonl"),
        run=str(FOLDER.run("{run}", "{seed}") / "run.json"),
    log:
        "<logs>/train-{run}-seed{seed}.log",
    benchmark:
        "<benchmarks>/train-{run}-seed{seed}.tsv"
    conda:
        "../envs/hargo.yaml"
    threads: study.compute.threads
    resources:
        **GPU,
        mem_mb=mem_mb_train,
        runtime=runtime_train,
    params:
        study=STUDY,
        model=start_model,
        data=subpath(input.train, parent=True),
        out=subpath(output.run, parent=True),
        checkpoints=str(FOLDER.checkpoints("{run}", "{seed}")),
        keep=lambda wildcards: run_of(wildcards).keep,
        options=run_options,
        pairs=lambda wildcards, input: (
            f" --pairs {Path(input.pairs[0]).parent}" if input.pairs else ""
        ),
        compute=COMPUTE,
        code=code("train"),
    message:
        "Training {wildcards.run}, seed {wildcards.seed}"
    shell:
        "exec python -m hargo train {wildcards.run} --config {params.study} --seed {wildcards.seed}"
        " --model {params.model} --data {params.data}{params.pairs} --out {params.out}"
        " --checkpoints {params.checkpoints} > {log} 2>&1"
