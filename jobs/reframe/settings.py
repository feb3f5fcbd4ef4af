"""ReFrame's settings: this machine, and a Slurm cluster to be named after yours.

reframe -C jobs/reframe/settings.py -c jobs/reframe -r --system local
"""

site_configuration = {
    "systems": [
        {
            "name": "h200",
            "hostnames": ["h200.*"],
            "partitions": [
                {
                    "name": "gpu",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "access": ["--gpus-per-node=2", "--partition=h200"],
                    "environs": ["builtin"],
                }
            ],
        },
        {
            "name": "local",
            "hostnames": [".*"],
            "partitions": [
                {
                    "name": "cpu",
                    "scheduler": "local",
                    "launcher": "mpirun",
                    "environs": ["builtin"],
                    "max_jobs": 1,
                }
            ],
        },
    ],
    "logging": [
        {
            "handlers": [
                {"type": "stream", "name": "stdout", "level": "info", "format": "%(message)s"}
            ],
            "handlers_perflog": [],
        }
    ],
}
