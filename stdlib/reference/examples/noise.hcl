noise {
  threshold   = 0.01
  min_repeats = 3
  max_repeats = 10
}
