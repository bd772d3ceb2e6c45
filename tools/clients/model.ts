/** Reads what writers of clients need of an OpenAPI document: named types, and operations that use them. */
import { namedTypeOf, TypeTable } from './types.ts'
import type { Document, DocumentOperation } from './document.ts'
import type { NamedType, Shape } from './types.ts'

export type Parameter = {
  readonly name: string
  readonly place: 'path' | 'query' | 'header'
  readonly shape: Shape
  readonly description: string
}

export type Operation = {
  /** In camel case, as `createVm`. */
  readonly id: string
  readonly summary: string
  readonly description: string
  /** In capitals. */
  readonly method: string
  /** With its parameters in braces, as `/v1/vms/{id}`. */
  readonly path: string
  readonly parameters: readonly Parameter[]
  readonly body: Shape | undefined
  /** Content of a successful answer: a value, a text, or nothing. */
  readonly answer: Shape | 'text' | undefined
  /** Whether a successful answer may also have no body, as 204 and 304 have none. */
  readonly mayBeEmpty: boolean
}

export type ApiModel = {
  readonly version: string
  readonly types: readonly NamedType[]
  readonly operations: readonly Operation[]
}

/** Media types that a plain client can use. */
const JSON_TYPE = 'application/json'
const TEXT_TYPE = 'text/plain'

/** Types of streams that the writers' own code reads, and of refusals. */
const ALWAYS = ['Problem', 'Event', 'EventStart']

/**
 * Reads a document. Leaves out operations that answer neither JSON nor plain text: pages, consoles, and the stream of
 * events, for which each client has code of its own. Throws if a schema has what no writer knows.
 */
export function modelOf(document: Document): ApiModel {
  const table = new TypeTable(document.components.schemas)
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, operation]) => operationOf({ method, path, operation, table })),
  )
  for (const name of ALWAYS) if (document.components.schemas[name] !== undefined) namedTypeOf(name, table)
  return { version: document.info.version, types: table.types(), operations }
}

type OperationPlace = {
  readonly method: string
  readonly path: string
  readonly operation: DocumentOperation
  readonly table: TypeTable
}

/** Returns nothing for an operation that no plain client can use. */
function operationOf({ method, path, operation, table }: OperationPlace): Operation[] {
  const { operationId: id, summary, description = '', parameters = [], requestBody, responses } = operation
  const successes = Object.entries(responses).filter(([status]) => /^[123]/.test(status))
  const contents = successes.map(([, { content = {} }]) => content)
  const used = new Set(contents.flatMap((content) => Object.keys(content)))
  const isUsable = [...used].every((type) => type === JSON_TYPE || type === TEXT_TYPE)
  if (!isUsable || successes.some(([status]) => status === '101') || path.startsWith('/docs')) return []
  const capital = id.charAt(0).toUpperCase() + id.slice(1)
  const [answer] = contents.flatMap((content) => content[JSON_TYPE]?.schema ?? [])
  const body = requestBody?.content?.[JSON_TYPE]?.schema
  return [
    {
      id,
      summary,
      description,
      method: method.toUpperCase(),
      path,
      parameters: parameters.map((parameter) => ({
        name: parameter.name,
        place: placeOf(parameter.in, `${id} ${parameter.name}`),
        shape: table.shapeOf(parameter.schema, `${capital}${parameter.name}`),
        description: parameter.description ?? '',
      })),
      body: body === undefined ? undefined : table.requestShapeOf(body, `${capital}Request`),
      answer: answer === undefined ? textOf(used) : table.shapeOf(answer, `${capital}Answer`),
      mayBeEmpty: contents.some((content) => Object.keys(content).length === 0),
    },
  ]
}

const textOf = (used: ReadonlySet<string>): 'text' | undefined => (used.has(TEXT_TYPE) ? 'text' : undefined)

function placeOf(place: string, where: string): Parameter['place'] {
  if (place === 'path' || place === 'query' || place === 'header') return place
  throw new Error(`${where}: no client sends a parameter in ${place}`)
}
