module github.com/ulikunitz/xz

go 1.26.0
