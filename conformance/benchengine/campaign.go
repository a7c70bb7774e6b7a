package main

func (t *table) campaigns(dir, self string) error { return nil }
