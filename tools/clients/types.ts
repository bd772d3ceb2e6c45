import type { Schema } from './document.ts'

/** The shape of a value, without the bounds that only the daemon checks. */
export type Shape =
  | { readonly kind: 'string'; readonly values: readonly string[] }
  | { readonly kind: 'integer' | 'number' | 'boolean' | 'any' }
  | { readonly kind: 'list' | 'map' | 'nullable'; readonly of: Shape }
  | { readonly kind: 'named'; readonly name: string }

export type Member = {
  /** As it is on the wire. */
  readonly name: string
  readonly shape: Shape
  readonly required: boolean
  readonly description: string
}

export type NamedType = {
  readonly name: string
  readonly description: string
  readonly members: readonly Member[]
  /** Whether it is a part of requests alone. In an answer, a string may get further values. */
  readonly isRequest: boolean
}

type Found = { readonly schema: Schema; inAnswer: boolean; members: readonly Member[] }

/** Collects types while shapes are read. An object without a name gets one from its place: `VmDesiredCompute`. */
export class TypeTable {
  readonly #schemas: Readonly<Record<string, Schema>>
  readonly #found = new Map<string, Found>()
  #inRequest = false

  constructor(schemas: Readonly<Record<string, Schema>>) {
    this.#schemas = schemas
  }

  /** Returns all types that were met, in the order of their names. */
  types(): NamedType[] {
    return [...this.#found]
      .map(([name, { schema, inAnswer, members }]) => ({
        name,
        description: schema.description ?? '',
        members,
        isRequest: !inAnswer,
      }))
      .toSorted((one, other) => (one.name < other.name ? -1 : 1))
  }

  /** Like {@link shapeOf}, for a body that a client sends. */
  requestShapeOf(schema: Schema, name: string): Shape {
    this.#inRequest = true
    try {
      return this.shapeOf(schema, name)
    } finally {
      this.#inRequest = false
    }
  }

  /** Returns the shape of a schema; an object in it gets this name. Throws if no writer knows the schema. */
  shapeOf(schema: Schema, name: string): Shape {
    const unknown = (['oneOf', 'allOf'] as const).find((word) => schema[word] !== undefined)
    if (unknown !== undefined) throw new Error(`${name}: the clients do not know ${unknown}`)
    if (schema.$ref !== undefined) return this.#named(schema.$ref)
    if (schema.anyOf !== undefined) return this.#unionOf(schema.anyOf, name)
    const types = [schema.type ?? 'any'].flat()
    const [type = 'any', ...more] = types.filter((each) => each !== 'null')
    if (more.length > 0) throw new Error(`${name}: the clients do not know a value of types ${types.join()}`)
    const shape = this.#plainShape(type, schema, name)
    return types.includes('null') ? { kind: 'nullable', of: shape } : shape
  }

  /** Knows one kind of union: something or null. */
  #unionOf(options: readonly Schema[], name: string): Shape {
    const [option, ...more] = options.filter(({ type }) => type !== 'null')
    if (option === undefined || more.length > 0)
      throw new Error(`${name}: the clients do not know a choice of ${options.length} schemas`)
    const shape = this.shapeOf(option, name)
    return options.length === 1 ? shape : { kind: 'nullable', of: shape }
  }

  #plainShape(type: string, schema: Schema, name: string): Shape {
    switch (type) {
      case 'string':
        return { kind: 'string', values: (schema.enum ?? []).filter((value) => value !== null).map(String) }
      case 'integer':
      case 'number':
      case 'boolean':
      case 'any':
        return { kind: type }
      case 'array':
        return { kind: 'list', of: this.shapeOf(schema.items ?? {}, singular(name)) }
      case 'object':
        return this.#objectShape(schema, name)
      default:
        throw new Error(`${name}: the clients do not know the type ${type}`)
    }
  }

  #objectShape(schema: Schema, name: string): Shape {
    const { properties, additionalProperties } = schema
    if (properties !== undefined) return this.#define(name, schema)
    const of: Shape =
      typeof additionalProperties === 'object'
        ? this.shapeOf(additionalProperties, `${name}Value`)
        : { kind: 'any' }
    return { kind: 'map', of }
  }

  #named(reference: string): Shape {
    const [, name] = /^#\/components\/schemas\/(\w+)$/.exec(reference) ?? []
    const schema = name === undefined ? undefined : this.#schemas[name]
    if (name === undefined || schema === undefined) throw new Error(`nothing is at ${reference}`)
    return this.#define(name, schema)
  }

  #define(name: string, schema: Schema): Shape {
    const before = this.#found.get(name)
    if (before !== undefined && before.schema !== schema)
      throw new Error(`two types would have the name ${name}: give one of the schemas a name of its own`)
    const found = before ?? { schema, inAnswer: false, members: [] }
    const isNews = before === undefined || (!this.#inRequest && !found.inAnswer)
    if (!this.#inRequest) found.inAnswer = true
    this.#found.set(name, found)
    if (isNews) found.members = this.#membersOf(schema, name)
    return { kind: 'named', name }
  }

  #membersOf({ properties = {}, required = [] }: Schema, name: string): Member[] {
    return Object.entries(properties).map(([member, schema]) => ({
      name: member,
      shape: this.shapeOf(schema, name + pascal(member)),
      required: required.includes(member),
      description: schema.description ?? '',
    }))
  }
}

/** Defines a type that no operation names. */
export const namedTypeOf = (name: string, table: TypeTable): Shape =>
  table.shapeOf({ $ref: `#/components/schemas/${name}` }, name)

/** Turns a name of the wire, in snake or kebab case, into one in Pascal case. */
export const pascal = (name: string): string =>
  name
    .split(/[^A-Za-z0-9]+/)
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('')

/** Names one of several: `VmListItems` becomes `VmListItem`. */
const singular = (name: string): string => name.replace(/ies$/, 'y').replace(/(?<=[^s])s$/, '')
