import { readFileSync } from 'node:fs'
import path from 'node:path'
import { comment, valuesText } from '../text.ts'
import { pascal } from '../types.ts'
import type { ApiModel, Operation, Parameter } from '../model.ts'
import type { Member, NamedType, Shape } from '../types.ts'

/** Words that Go writes in capitals. */
const INITIALS: Readonly<Record<string, string>> = {
  Id: 'ID',
  Url: 'URL',
  Urls: 'URLs',
  Vm: 'VM',
  Cpu: 'CPU',
}

const HEAD = `// Package vmhostd is the client of vmhostd's API for controllers. Made from the OpenAPI document; do not edit.
//
// A pointer that is nil, a slice or map that is nil, and a zero Nullable are left out of a request: what is stored
// stays as it is. A List is sent as an empty list if it is nil.
package vmhostd

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)
`

/**
 * Renders the file of the package: types, the code that sends requests, and a method for each operation.
 * Go 1.24 or later.
 */
export function writeGo({ version, types, operations }: ApiModel): string {
  return [
    HEAD,
    '// Version is that of the API document.',
    `const Version = ${JSON.stringify(version)}\n`,
    types.map(renderType).join('\n'),
    readFileSync(path.join(import.meta.dirname, 'connection.go'), 'utf8'),
    operations.map(renderOperation).join('\n'),
  ].join('\n')
}

/** Writes a name of the wire as Go does: `vm_id` becomes `VMID`. */
const fieldName = (name: string): string =>
  name
    .split(/[^A-Za-z0-9]+/)
    .map((word) => INITIALS[pascal(word)] ?? pascal(word))
    .join('')

function renderType({ name, description, members, isRequest }: NamedType): string {
  return [
    ...comment(`${name} is a part of ${isRequest ? 'requests' : 'answers'}. ${description}`, '// '),
    `type ${name} struct {`,
    ...members.flatMap((member) => renderField(member, isRequest)),
    '}\n',
  ].join('\n')
}

function renderField(member: Member, isRequest: boolean): string[] {
  const { name, shape, required, description } = member
  const values = valuesText(stringValues(shape), isRequest)
  // A field without a comment would have to be aligned with its neighbours.
  const text = [description, values].filter(Boolean).join(' ') || `The member ${name}.`
  const tag = required ? name : `${name},omitzero`
  return [
    ...comment(text, '\t// '),
    `\t${fieldName(name)} ${memberType(member, isRequest)} \`json:"${tag}"\``,
  ]
}

/** Returns the values of a string or of the strings in a list. */
function stringValues(shape: Shape): readonly string[] {
  if (shape.kind === 'string') return shape.values
  return shape.kind === 'list' || shape.kind === 'nullable' ? stringValues(shape.of) : []
}

function memberType({ shape, required }: Member, isRequest: boolean): string {
  if (shape.kind === 'list' && required && isRequest) return sentList(shape.of)
  if (shape.kind === 'nullable' && !required && isRequest)
    return `Nullable[${shape.of.kind === 'list' ? sentList(shape.of.of) : typeOf(shape.of)}]`
  const type = typeOf(shape)
  const canBeAbsent = ['list', 'map', 'nullable', 'any'].includes(shape.kind)
  return required || canBeAbsent ? type : `*${type}`
}

/** A list that is sent as an empty one if it is nil: null would have another meaning. */
const sentList = (of: Shape): string => `List[${typeOf(of)}]`

const SIMPLE = { string: 'string', integer: 'int64', number: 'float64', boolean: 'bool', any: 'any' } as const

function typeOf(shape: Shape): string {
  const { kind } = shape
  if (kind === 'named') return shape.name
  if (kind === 'list') return `[]${typeOf(shape.of)}`
  if (kind === 'map') return `map[string]${typeOf(shape.of)}`
  if (kind !== 'nullable') return SIMPLE[kind]
  // A nil slice or map is null already.
  return ['list', 'map'].includes(shape.of.kind) ? typeOf(shape.of) : `*${typeOf(shape.of)}`
}

function renderOperation(operation: Operation): string {
  const { id, summary, description, method, parameters, body, answer } = operation
  const name = id.charAt(0).toUpperCase() + id.slice(1)
  const of = (place: Parameter['place']) => parameters.filter((parameter) => parameter.place === place)
  const optional = [...of('query'), ...of('header')]
  const text = [`${name}: ${summary}.`, description].filter(Boolean).join('\n')
  const inputs = [
    'ctx context.Context',
    ...of('path').map((parameter) => `${parameter.name} string`),
    ...(body === undefined ? [] : [`body ${typeOf(body)}`]),
    ...(optional.length === 0 ? [] : [`options ${name}Options`]),
  ]
  const type = answer === 'text' ? 'string' : answer === undefined ? 'struct{}' : typeOf(answer)
  return [
    ...(optional.length === 0 ? [] : [renderOptions(name, optional)]),
    ...comment(text, '// '),
    `func (c *Client) ${name}(${inputs.join(', ')}) (*Answer[${type}], error) {`,
    '\tquery, headers := url.Values{}, http.Header{}',
    ...of('query').map((parameter) => renderSet('query', parameter)),
    ...of('header').map((parameter) => renderSet('headers', parameter)),
    `\treturn send[${type}](ctx, c, request{"${method}", ${pathOf(operation.path)}, query, headers, ${body === undefined ? 'nil' : 'body'}})`,
    '}\n',
  ].join('\n')
}

const renderOptions = (name: string, optional: readonly Parameter[]): string =>
  [
    `// ${name}Options are the parameters of ${name} that can be left out.`,
    `type ${name}Options struct {`,
    ...optional.flatMap((parameter) => [
      ...comment(optionText(parameter), '\t// '),
      `\t${fieldName(parameter.name)} ${isText(parameter) ? 'string' : `*${typeOf(parameter.shape)}`}`,
    ]),
    '}\n',
  ].join('\n')

const isText = ({ shape }: Parameter): boolean => shape.kind === 'string'

const optionText = ({ name, description, shape }: Parameter): string =>
  [description, valuesText(stringValues(shape), true)].filter(Boolean).join(' ') || `The parameter ${name}.`

const renderSet = (target: string, parameter: Parameter): string =>
  `\t${isText(parameter) ? 'setText' : 'set'}(${target}.Set, "${parameter.name}", options.${fieldName(parameter.name)})`

const pathOf = (template: string): string =>
  template
    .split(/(\{\w+\})/)
    .filter(Boolean)
    .map((part) => (part.startsWith('{') ? `url.PathEscape(${part.slice(1, -1)})` : JSON.stringify(part)))
    .join(' + ')
