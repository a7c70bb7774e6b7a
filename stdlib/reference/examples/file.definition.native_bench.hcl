native_bench {
  command = ["{program}", "bench", "--base-url", "{url}"]
}
