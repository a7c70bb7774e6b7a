help "server" {
  command = ["{program}", "serve", "--help"]
}
help "bench" {
  command = ["{program}", "bench", "--help"]
  stderr  = true
}
