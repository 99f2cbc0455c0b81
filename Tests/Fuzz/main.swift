Fuzz.run()
