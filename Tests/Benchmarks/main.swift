await Benchmark.run()
