package pm2

import (
	"superd/importer/draft"
	"superd/importer/yamltree"
)

// readYAML returns what a file in YAML has, which pm2 also reads.
func readYAML(text []byte) (*node, error) {
	root, err := yamltree.Read(text)
	if err != nil {
		return nil, err
	}
	n := nodeOf(root)
	return &n, nil
}

// nodeOf returns a value of YAML as one of a literal: texts are templates.
func nodeOf(y *yamltree.Node) node {
	n := node{line: y.Line, comments: y.Comments}
	switch {
	case y.IsMap():
		n.kind = isObject
		for _, m := range y.Members() {
			n.members = append(n.members, member{m.Key, nodeOf(m.Value)})
		}
	case y.IsList():
		n.kind = isList
		for _, item := range y.Items() {
			n.items = append(n.items, nodeOf(item))
		}
	case y.IsNull():
		n.kind, n.text = isName, "null"
	case y.IsText():
		n.text = draft.Literal(y.Text())
	default:
		n.kind, n.text = isNumber, y.Plain()
		if n.text == "true" || n.text == "false" {
			n.kind = isName
		}
	}
	return n
}
