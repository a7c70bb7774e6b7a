failure "oom" {
  match = "(?i)out of memory"
}
