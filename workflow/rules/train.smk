# Supervised fine-tuning once per seed, then every method from that model.


rule sft:
    input:
        model=base_folder(),
        train=rules.data.output.train,
    output:
        model=directory("<results>/sft/seed{seed}/model"),
        metrics="<results>/sft/seed{seed}/metrics.jsonl",
        run="<results>/sft/seed{seed}/run.json",
    log:
        "<logs>/sft-seed{seed}.log",
    benchmark:
        "<benchmarks>/sft-seed{seed}.tsv"
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
        checkpoints=f"{RESULTS}/checkpoints/sft-seed{{seed}}",
        sft=options(study.sft, "checkpoint_every"),
        compute=COMPUTE,
        code=code("sft"),
    message:
        "Fine-tuning, seed {wildcards.seed}"
    shell:
        "exec python -m hargo sft --config {params.study} --seed {wildcards.seed} --model {input.model}"
        " --data {params.data} --out {params.out} --checkpoints {params.checkpoints} > {log} 2>&1"


rule train:
    input:
        model=start_model,
        train=rules.data.output.train,
        pairs=pairs_file,
    output:
        model=directory("<results>/train/{method}/seed{seed}/model"),
        metrics="<results>/train/{method}/seed{seed}/metrics.jsonl",
        run="<results>/train/{method}/seed{seed}/run.json",
    log:
        "<logs>/train-{method}-seed{seed}.log",
    benchmark:
        "<benchmarks>/train-{method}-seed{seed}.tsv"
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
        checkpoints=f"{RESULTS}/checkpoints/{{method}}-seed{{seed}}",
        method=method_options,
        pairs=lambda wildcards, input: (
            f" --pairs {Path(input.pairs[0]).parent}" if input.pairs else ""
        ),
        compute=COMPUTE,
        code=code("train"),
    message:
        "Training {wildcards.method}, seed {wildcards.seed}"
    shell:
        "exec python -m hargo train {wildcards.method} --config {params.study} --seed {wildcards.seed}"
        " --model {input.model} --data {params.data}{params.pairs} --out {params.out}"
        " --checkpoints {params.checkpoints} > {log} 2>&1"
