# Tables, figures and pages from everything above.


rule report:
    input:
        manifest=rules.data.output.manifest,
        audit=rules.audit.output.json,
        evaluations=expand(rules.evaluate.output, run=study.reported, seed=study.seeds),
        training=expand(
            rules.train.output.metrics, run=study.reported, seed=study.seeds
        ),
        baselines=rules.baselines.output,
        external=(
            expand(rules.external.output, run=study.reported, seed=study.seeds)
            if EXTERNAL
            else []
        ),
    output:
        summary=report(
            str(FOLDER.report / "summary.csv"),
            caption="../report/headline.rst",
            category="Results",
            labels={"table": "headline"},
        ),
        per_task=report(
            str(FOLDER.report / "per_task.csv"),
            caption="../report/per_task.rst",
            category="Results",
            labels={"table": "per task"},
        ),
        ablation=report(
            str(FOLDER.report / "ablation.csv"),
            caption="../report/ablation.rst",
            category="Results",
            labels={"table": "ablation"},
        ),
        heterogeneity=report(
            str(FOLDER.report / "heterogeneity.csv"),
            caption="../report/heterogeneity.rst",
            category="Results",
            labels={"table": "heterogeneity"},
        ),
        figures=report(
            directory(str(FOLDER.report / "figures")),
            patterns=["{figure}.svg"],
            caption="../report/figure.rst",
            category="Figures",
            labels={"figure": "{figure}"},
        ),
        html=report(
            str(FOLDER.report / "report.html"),
            caption="../report/report.rst",
            category="Report",
            labels={"page": "full report"},
        ),
        text=str(FOLDER.report / "report.md"),
        evidence=str(FOLDER.report / "evidence.csv"),
        similarity=str(FOLDER.report / "similarity.csv"),
    log:
        "<logs>/report.log",
    benchmark:
        "<benchmarks>/report.tsv"
    conda:
        "../envs/hargo.yaml"
    threads: 1
    resources:
        mem_mb=mem_mb_light,
        runtime=30,
        gpu=0,
    params:
        study=STUDY,
        results=subpath(input.manifest, ancestor=2),
        out=subpath(output.html, parent=True),
        shown=report_options(),
        code=code("report"),
    message:
        "Writing the report to {output.html}"
    shell:
        "exec python -m hargo report --config {params.study} --results {params.results} --out {params.out} > {log} 2>&1"
