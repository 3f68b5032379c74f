# Pairs of answers of the SFT model, once per seed, for all methods that learn from them.


rule preferences:
    input:
        model=rules.sft.output.model,
        train=rules.data.output.train,
    output:
        pairs="<results>/preferences/seed{seed}/pairs.jsonl",
        run="<results>/preferences/seed{seed}/run.json",
    log:
        "<logs>/preferences-seed{seed}.log",
    benchmark:
        "<benchmarks>/preferences-seed{seed}.tsv"
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
        rl=options(
            study.rl,
            include=[
                "temperature",
                "max_new_tokens",
                "train_limit",
                "max_prompt_tokens",
            ],
        ),
        compute=COMPUTE,
        code=code("preferences"),
    message:
        "Sampling pairs of answers, seed {wildcards.seed}"
    shell:
        "exec python -m hargo preferences --config {params.study} --seed {wildcards.seed} --model {input.model}"
        " --data {params.data} --out {params.out} > {log} 2>&1"
