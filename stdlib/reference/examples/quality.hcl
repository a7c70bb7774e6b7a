quality {
  max_age   = "30d"
  power_cap = "reject"
}
