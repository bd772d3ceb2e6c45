import { readFileSync } from 'node:fs'
import path from 'node:path'
import { comment, snake, valuesText } from '../text.ts'
import type { ApiModel, Operation, Parameter } from '../model.ts'
import type { Member, NamedType, Shape } from '../types.ts'

/** Names that a class body or a function cannot use as they are. */
const KEYWORDS = new Set([
  'from',
  'in',
  'is',
  'class',
  'global',
  'import',
  'pass',
  'with',
  'as',
  'if',
  'not',
  'or',
])

const HEAD = `"""Client of vmhostd's API for controllers. Made from the OpenAPI document; do not edit.

Values are plain dictionaries, described by TypedDict: what a newer daemon adds to an answer is in them too. In a request, leave out
a member to keep what is stored, and set it to None to remove it, where its type allows None.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Literal, NotRequired, TypedDict, TypeVar, cast
`

/** Renders the module: types, the code that sends requests, and a method for each operation. Python 3.11 or later. */
export function writePython({ version, types, operations }: ApiModel): string {
  const connection = readFileSync(path.join(import.meta.dirname, 'connection.py'), 'utf8')
  return [
    HEAD,
    `VERSION = ${JSON.stringify(version)}\n\n`,
    types.map(renderType).join('\n\n'),
    `\n${connection.trimEnd()}\n\n`,
    'class Client(Connection):',
    '    """Has a method for each operation. Raises ApiProblem, UnexpectedAnswer or OSError."""\n',
    operations.map(renderOperation).join('\n'),
  ].join('\n')
}

function renderType({ name, description, members, isRequest }: NamedType): string {
  const lines = members.flatMap((member) => [
    ...comment(memberText(member, isRequest), '    # '),
    `    ${member.name}: ${memberType(member, isRequest)}`,
  ])
  if (members.some((member) => KEYWORDS.has(member.name)))
    return [
      ...comment(description, '# '),
      `${name} = TypedDict(`,
      `    "${name}",`,
      '    {',
      ...members.map(
        (member) => `        "${member.name}": ${JSON.stringify(memberType(member, isRequest))},`,
      ),
      '    },',
      ')\n',
    ].join('\n')
  return [
    `class ${name}(TypedDict):`,
    ...docstring(description, '    '),
    ...(lines.length === 0 && description === '' ? ['    pass'] : lines),
    '',
  ].join('\n')
}

const memberText = ({ description, shape }: Member, isRequest: boolean): string =>
  [description, isRequest ? '' : valuesText(stringValues(shape), false)].filter(Boolean).join(' ')

function memberType({ shape, required }: Member, isRequest: boolean): string {
  const type = typeOf(shape, isRequest)
  return required ? type : `NotRequired[${type}]`
}

/** Returns the values of a string or of the strings in a list. */
function stringValues(shape: Shape): readonly string[] {
  if (shape.kind === 'string') return shape.values
  return shape.kind === 'list' || shape.kind === 'nullable' ? stringValues(shape.of) : []
}

const SIMPLE = { integer: 'int', number: 'float', boolean: 'bool', any: 'Any' } as const

function typeOf(shape: Shape, isRequest: boolean): string {
  const { kind } = shape
  if (kind === 'named') return shape.name
  if (kind === 'list') return `list[${typeOf(shape.of, isRequest)}]`
  if (kind === 'map') return `dict[str, ${typeOf(shape.of, isRequest)}]`
  if (kind === 'nullable') return `${typeOf(shape.of, isRequest)} | None`
  if (kind !== 'string') return SIMPLE[kind]
  const values = shape.values.map((value) => JSON.stringify(value))
  return isRequest && values.length > 0 ? `Literal[${values.join(', ')}]` : 'str'
}

function renderOperation(operation: Operation): string {
  const { id, summary, description, method, parameters, body } = operation
  const of = (place: Parameter['place']) => parameters.filter((parameter) => parameter.place === place)
  const optional = [...of('query'), ...of('header')]
  const inPath = of('path').map(({ name }) => `, ${variable(name)}: str`)
  const named = optional.map(
    ({ name, shape }) => `        ${variable(name)}: ${typeOf(shape, true)} | None = None,`,
  )
  const first = `self${inPath.join('')}${body === undefined ? '' : `, body: ${typeOf(body, true)}`}`
  const signature =
    named.length === 0
      ? [`    def ${snake(id)}(${first}) -> ${answerType(operation)}:`]
      : [
          `    def ${snake(id)}(`,
          `        ${first},`,
          '        *,',
          ...named,
          `    ) -> ${answerType(operation)}:`,
        ]
  const parts = [
    `"${method}"`,
    pathOf(operation.path),
    dictionary(of('query')),
    dictionary(of('header')),
    ...(body === undefined ? [] : ['body']),
    ...(operation.answer === 'text' ? ['text=True'] : []),
  ]
  return [
    ...signature,
    ...docstring([summary + '.', description].filter(Boolean).join('\n'), '        '),
    `        return self._send(${parts.join(', ')})`,
    '',
  ].join('\n')
}

function answerType({ answer, mayBeEmpty }: Operation): string {
  if (answer === undefined) return 'Answer[None]'
  const type = answer === 'text' ? 'str' : typeOf(answer, false)
  return `Answer[${type}${mayBeEmpty ? ' | None' : ''}]`
}

/** Names a parameter or variable. */
const variable = (name: string): string => (KEYWORDS.has(snake(name)) ? `${snake(name)}_` : snake(name))

const pathOf = (template: string): string =>
  template.includes('{')
    ? `f"${template.replaceAll(/\{(\w+)\}/g, (_, name: string) => `{_quote(${variable(name)})}`)}"`
    : `"${template}"`

const dictionary = (parameters: readonly Parameter[]): string =>
  `{${parameters.map(({ name }) => `"${name}": ${variable(name)}`).join(', ')}}`

/** Renders a text in triple quotes; a backslash stays itself. */
function docstring(text: string, indent: string): string[] {
  if (text === '') return []
  const lines = comment(text.replaceAll('\\', '\\\\').replaceAll('"""', "'''"), indent)
  const [first = '', ...rest] = lines
  const opened = `${indent}"""${first.slice(indent.length)}`
  if (rest.length === 0) return [`${opened.replace(/"$/, '" ')}"""`]
  return [opened, ...rest, `${indent}"""`]
}
