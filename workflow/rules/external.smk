# Every model on DataRaceBench, for studies that name a copy of it.


if EXTERNAL:

    rule external:
        input:
            model=str(FOLDER.model("{run}", "{seed}")),
            train=rules.data.output.train,
            kernels=KERNELS,
        output:
            predictions=str(FOLDER.external("{run}", "{seed}") / "predictions.jsonl"),
            metrics=str(FOLDER.external("{run}", "{seed}") / "metrics.json"),
            run=str(FOLDER.external("{run}", "{seed}") / "run.json"),
        log:
            "<logs>/external-{run}-seed{seed}.log",
        benchmark:
            "<benchmarks>/external-{run}-seed{seed}.tsv"
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
            evaluation=options(study.evaluation, "tie"),
            sampler=options(study.rl.sampler),
            compute=COMPUTE,
            files=stamp(KERNELS),
            code=code("external"),
        message:
            "Scoring {wildcards.run}, seed {wildcards.seed}, on DataRaceBench"
        shell:
            "exec python -m hargo race score --config {params.study} --model {input.model} --data {params.data}"
            " --out {params.out} > {log} 2>&1"
