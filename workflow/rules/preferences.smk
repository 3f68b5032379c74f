# Pairs of answers of a model, once per seed, for all runs that learn from them and start from that model.


rule preferences:
    input:
        model=sampled_files,
        train=rules.data.output.train,
    output:
        pairs=str(FOLDER.pairs("{start}", "{seed}") / "pairs.jsonl"),
        run=str(FOLDER.pairs("{start}", "{seed}") / "run.json"),
    log:
        "<logs>/preferences-{start}-seed{seed}.log",
    benchmark:
        "<benchmarks>/preferences-{start}-seed{seed}.tsv"
    conda:
        "../envs/hargo.yaml"
    threads: study.compute.threads
    resources:
        **GPU,
        mem_mb=mem_mb_train,
        runtime=runtime_train,
    params:
        study=STUDY,
        model=sampled_model,
        data=subpath(input.train, parent=True),
        out=subpath(output.run, parent=True),
        rl=options(
            study.rl,
            include=[
                "temperature",
                "max_new_tokens",
                "train_limit",
                "max_prompt_tokens",
                "sampler",
            ],
        ),
        compute=COMPUTE,
        code=code("preferences"),
    message:
        "Sampling pairs of answers from {wildcards.start}, seed {wildcards.seed}"
    shell:
        "exec python -m hargo preferences --config {params.study} --seed {wildcards.seed} --model {params.model}"
        " --data {params.data} --out {params.out} > {log} 2>&1"
