package policy

// table lists the methods and then the wrappers, in the order in which they are shown. Each is defined in a file of its
// own; adding one means adding that file and its line here.
var table = []*Method{
	&full,
	&window,
	&streamingllm,
	&h2o,
	&observed,
	&snapkv,
	&pyramidkv,
	&cake,
	&adapyramid,
	&headkv,
	&compresskv,
	&adacompresskv,
	&headcompresskv,
	&razor,
	&duo,
	&tova,
	&knorm,
	&keydiff,
	&expected,
	&quest,
	&random,

	&adakv,
	&chunkkv,
	&criticalkv,
}

// Methods are all registered methods and wrappers, methods first, in the order in which they are shown. They are not to
// be changed.
func Methods() []*Method { return table }

// Find gives a method or wrapper by its name, nil if there is none.
func Find(name string) *Method {
	for _, m := range table {
		if m.Name == name {
			return m
		}
	}
	return nil
}
