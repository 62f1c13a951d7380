module gpumpi/tools/prometheus

go 1.25.0

require github.com/prometheus/prometheus v0.313.1 // indirect
