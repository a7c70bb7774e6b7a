workload {
  concurrency = [null, 4, 16]
  arrival     = "poisson"
  rate        = 2.5
  warmup      = 8
}
