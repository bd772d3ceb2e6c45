import { compareSchema } from './schema.ts'
import type { Pair, Schema, Schemas } from './flat-schema.ts'

type Content = Readonly<Record<string, { readonly schema?: Schema }>>

type Parameter = {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly schema: Schema
}

type Answer = { readonly content?: Content; readonly headers?: Readonly<Record<string, object>> }

type Operation = {
  readonly operationId: string
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly content: Content }
  readonly responses: Readonly<Record<string, Answer>>
  readonly 'x-roles'?: readonly string[]
}

export type ApiDocument = {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Schemas }
}

/**
 * Schemas that no route has as its request or the content of its success: the answer to every refusal, messages of a
 * stream, and frames of a console. A viewer sends frames of its own.
 */
const MESSAGES = {
  Problem: 'answer',
  EventStart: 'answer',
  Event: 'answer',
  ConsoleFromDaemon: 'answer',
  ConsoleFromViewer: 'request',
} as const

/**
 * Returns each change of an API that breaks the promise for it (docs/compatibility.md), one sentence each. An addition
 * breaks nothing, nor does what becomes wider for clients.
 */
export function compareDocuments({ published, today }: Pair<ApiDocument>): string[] {
  const schemas = { published: published.components.schemas, today: today.components.schemas }
  const names = Object.keys(schemas.published).filter((name) => schemas.today[name] === undefined)
  const operations = Object.entries(published.paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, operation]) => {
      const where = `${method.toUpperCase()} ${path}`
      const now = today.paths[path]?.[method]
      return now === undefined
        ? [`${where} is gone`]
        : compareOperation({ published: operation, today: now }, { schemas, where })
    }),
  )
  return [...names.map((name) => `the schema ${name} is gone`), ...compareMessages(schemas), ...operations]
}

const compareMessages = (schemas: Pair<Schemas>): string[] =>
  Object.entries(MESSAGES).flatMap(([name, side]) => {
    const [published, today] = [schemas.published[name], schemas.today[name]]
    if (published === undefined || today === undefined) return []
    return compareSchema({ published, today }, { side, schemas, where: name })
  })

type Place = { readonly schemas: Pair<Schemas>; readonly where: string }

function compareOperation(pair: Pair<Operation>, place: Place): string[] {
  const { published, today } = pair
  const roles = (published['x-roles'] ?? []).filter((role) => !(today['x-roles'] ?? []).includes(role))
  return [
    ...(published.operationId === today.operationId ? [] : [`${place.where} has another operationId`]),
    ...roles.map((role) => `${place.where} refuses the role ${role}`),
    ...compareParameters(pair, place),
    ...compareBodies(pair, place),
    ...compareSuccesses(pair, place),
  ]
}

const sameParameter =
  (one: Parameter) =>
  (other: Parameter): boolean =>
    one.name === other.name && one.in === other.in

function compareParameters({ published, today }: Pair<Operation>, { schemas, where }: Place): string[] {
  const [before, after] = [published.parameters ?? [], today.parameters ?? []]
  const kept = before.flatMap((parameter) => {
    const now = after.find(sameParameter(parameter))
    const at = `${where}, parameter ${parameter.name},`
    return now === undefined
      ? [`${at} is gone`]
      : compareSchema(
          { published: parameter.schema, today: now.schema },
          { side: 'request', schemas, where: at },
        )
  })
  const needed = after.filter(
    (parameter) => parameter.required === true && before.find(sameParameter(parameter))?.required !== true,
  )
  return [...kept, ...needed.map(({ name }) => `${where} needs the parameter ${name}`)]
}

function compareBodies({ published, today }: Pair<Operation>, { schemas, where }: Place): string[] {
  const [before, after] = [published.requestBody, today.requestBody]
  if (before === undefined) return after === undefined ? [] : [`${where} needs a body`]
  return compareContents(
    { published: before.content, today: after?.content ?? {} },
    { side: 'request', schemas, where: `${where}, request` },
  )
}

function compareSuccesses({ published, today }: Pair<Operation>, { schemas, where }: Place): string[] {
  // 101 has no content of its own: the frames of a console are compared as messages.
  const successes = ({ responses }: Operation) =>
    Object.keys(responses).filter((status) => /^[23]/.test(status))
  const added = successes(today).filter((status) => published.responses[status] === undefined)
  const kept = successes(published).flatMap((status) => {
    const [before, after] = [published.responses[status], today.responses[status]]
    // A client misses no status that is no longer answered; while it is, its content stays.
    return before === undefined || after === undefined
      ? []
      : compareAnswers({ published: before, today: after }, { schemas, where: `${where}, answer ${status}` })
  })
  return [...added.map((status) => `${where} may answer ${status}`), ...kept]
}

function compareAnswers({ published, today }: Pair<Answer>, { schemas, where }: Place): string[] {
  const headers = Object.keys(published.headers ?? {}).filter((name) => today.headers?.[name] === undefined)
  const contents = { published: published.content ?? {}, today: today.content ?? {} }
  return [
    ...headers.map((name) => `${where} has no header ${name}`),
    ...compareContents(contents, { side: 'answer', schemas, where }),
  ]
}

function compareContents(
  { published, today }: Pair<Content>,
  comparison: {
    readonly side: 'request' | 'answer'
    readonly schemas: Pair<Schemas>
    readonly where: string
  },
): string[] {
  return Object.entries(published).flatMap(([type, { schema = {} }]) => {
    const now = today[type]
    return now === undefined
      ? [`${comparison.where} is no longer ${type}`]
      : compareSchema({ published: schema, today: now.schema ?? {} }, comparison)
  })
}
