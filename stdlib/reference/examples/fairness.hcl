fairness {
  waive = { gpu_ids = "The hosted server does not show which GPUs it uses." }
}
