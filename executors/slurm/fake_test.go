package slurm

func fakeMain() {}
