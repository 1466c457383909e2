package redislimit

const workerEnv = "REDISLIMIT_WORKER"

func worker(string) {}
