executor "slurm" {
  options = { partition = "gpu", exclusive = true }
}
