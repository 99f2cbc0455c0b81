Simulate.run()
