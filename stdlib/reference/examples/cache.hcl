cache {
  remote = "oci://registry.example/team/sotabuild"
  push   = false
}
