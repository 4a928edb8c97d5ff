package server

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// An apiSchema is a JSON Schema (2020-12), as OpenAPI 3.1 has them.
type apiSchema struct {
	Ref         string                `yaml:"$ref,omitempty"`
	Description string                `yaml:"description,omitempty"`
	Type        any                   `yaml:"type,omitempty"` // a string or a list of them
	Format      string                `yaml:"format,omitempty"`
	Encoding    string                `yaml:"contentEncoding,omitempty"`
	Enum        []string              `yaml:"enum,omitempty,flow"`
	Minimum     *int                  `yaml:"minimum,omitempty"`
	Items       *apiSchema            `yaml:"items,omitempty"`
	AnyOf       []*apiSchema          `yaml:"anyOf,omitempty"`
	Required    []string              `yaml:"required,omitempty,flow"`
	Properties  map[string]*apiSchema `yaml:"properties,omitempty"`
	Additional  *apiSchema            `yaml:"additionalProperties,omitempty"`
}

// apiTypes makes schemas of the types of package control.
type apiTypes struct {
	t          *testing.T
	docs       map[string]string // comments of types and fields: "Status", "Status.Name"
	components map[string]*apiSchema
}

// newTypes reads the comments of package control.
func newTypes(t *testing.T) *apiTypes {
	t.Helper()
	types := &apiTypes{t: t, docs: map[string]string{}, components: map[string]*apiSchema{}}
	paths, err := filepath.Glob("../*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	for _, path := range paths {
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.TYPE {
				types.read(d)
			}
		}
	}
	return types
}

// read reads the comments of a type and its fields.
func (a *apiTypes) read(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		spec, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		a.docs[spec.Name.Name] = comment(d.Doc)
		fields, ok := spec.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range fields.Fields.List {
			for _, name := range f.Names {
				a.docs[spec.Name.Name+"."+name.Name] = strings.TrimSpace(comment(f.Doc) + " " + comment(f.Comment))
			}
		}
	}
}

// link matches a name in brackets, such as [Client.Logs].
var link = regexp.MustCompile(`\[([A-Za-z.]+)\]`)

// comment returns a comment as one line, without links.
func comment(group *ast.CommentGroup) string {
	return link.ReplaceAllString(strings.Join(strings.Fields(group.Text()), " "), "$1")
}

// of returns the schema of a value of one of the types of values; nil for none.
func (a *apiTypes) of(values ...any) *apiSchema {
	var all []*apiSchema
	for _, v := range values {
		all = append(all, a.schema(reflect.TypeOf(v)))
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return &apiSchema{AnyOf: all}
}

// schema returns the schema of a type, which is a reference for a struct.
func (a *apiTypes) schema(t reflect.Type) *apiSchema {
	switch t.Kind() {
	case reflect.Pointer:
		return orNull(a.schema(t.Elem()))
	case reflect.String:
		return &apiSchema{Type: "string"}
	case reflect.Bool:
		return &apiSchema{Type: "boolean"}
	case reflect.Int, reflect.Int64:
		return &apiSchema{Type: "integer"}
	case reflect.Uint32, reflect.Uint64:
		return &apiSchema{Type: "integer", Minimum: new(0)}
	case reflect.Float64:
		return &apiSchema{Type: "number"}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return &apiSchema{Type: "string", Encoding: "base64"}
		}
		return &apiSchema{Type: "array", Items: a.schema(t.Elem())}
	case reflect.Map:
		return &apiSchema{Type: "object", Additional: a.schema(t.Elem())}
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return &apiSchema{Type: "string", Format: "date-time"}
		}
		a.component(t)
		return &apiSchema{Ref: "#/components/schemas/" + t.Name()}
	}
	a.t.Fatalf("%v has no schema", t)
	return nil
}

// orNull returns the schema of what s describes, or null.
func orNull(s *apiSchema) *apiSchema {
	if s.Ref != "" {
		return &apiSchema{AnyOf: []*apiSchema{s, {Type: "null"}}}
	}
	s.Type = []string{s.Type.(string), "null"}
	return s
}

// component adds the schema of a struct to the components.
func (a *apiTypes) component(t reflect.Type) {
	if a.components[t.Name()] != nil {
		return
	}
	s := &apiSchema{Type: "object", Description: a.docs[t.Name()], Properties: map[string]*apiSchema{}}
	if s.Description == "" {
		a.t.Errorf("control.%s has no comment", t.Name())
	}
	a.components[t.Name()] = s
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name == "" {
			a.t.Errorf("control.%s.%s has no name in JSON", t.Name(), f.Name)
		}
		optional := strings.Contains(options, "omit")
		of := f.Type
		if optional && of.Kind() == reflect.Pointer {
			of = of.Elem() // absent instead of null
		}
		p := a.schema(of)
		p.Description = a.docs[t.Name()+"."+f.Name]
		s.Properties[name] = p
		if !optional {
			s.Required = append(s.Required, name)
		}
	}
}
