import { addProblem } from '../listener/answers.ts'
import { Refused } from '../listener/refused.ts'
import { rolesFor } from './access.ts'
import { contextOf } from './routes/vm-parts.ts'
import type { FastifyRequest, RouteOptions } from 'fastify'
import type { VmId } from '../../core/ids.ts'
import type { App } from '../listener/app.ts'
import type { Client, Role, Scope } from './clients.ts'
import type { ApiDependencies } from './dependencies.ts'

const CONTROLLER: Client = { role: 'controller' }

/**
 * Refuses requests whose client does not have a role that the route is for, before their body is read. Describes the
 * roles of each route that is added after this call. Without TLS every client is the controller.
 */
export function guardRoles(app: App, dependencies: ApiDependencies): void {
  const { clients } = dependencies
  const clientOf = ({ peerName }: FastifyRequest): Client | undefined =>
    clients === undefined ? CONTROLLER : clients.get(peerName)
  app.addHook('onRoute', (route) => {
    const [method = ''] = [route.method].flat()
    const roles = rolesFor(method, route.url)
    if (method !== 'HEAD') describeRoles(route, roles)
    const scoped = isOfVm(route.url) && roles.includes('console')
    addTo(route, 'onRequest', (request, _reply, done) => {
      const client = clientOf(request)
      if (client === undefined) return done(new Error('a peer was admitted that is not among the clients'))
      request.peer = { ...request.peer, role: client.role }
      if (!roles.includes(client.role)) return done(refusal(roles, client.role))
      done(scoped ? scopeRefusal(dependencies, request, { client, roles }) : undefined)
    })
    if (!scoped) return
    // While a VM wakes for a shell, it may have left the scope; an answer to an upgrade is not sent through hooks.
    addTo(route, 'preHandler', (request, _reply, done) => {
      done(scopeRefusal(dependencies, request, { client: clientOf(request), roles }))
    })
    // During a long poll the VM may have left the scope.
    addTo(route, 'onSend', (request, { statusCode }, payload, done) => {
      const client = clientOf(request)
      const refused = statusCode >= 400 ? undefined : scopeRefusal(dependencies, request, { client, roles })
      if (refused === undefined) done(null, payload)
      else done(refused)
    })
  })
}

/** Adds a hook to those of a route. */
function addTo<Name extends 'onRequest' | 'preHandler' | 'onSend'>(
  route: RouteOptions,
  name: Name,
  hook: Extract<NonNullable<RouteOptions[Name]>, (...args: never[]) => unknown>,
): void {
  route[name] = [...[route[name] ?? []].flat(), hook] as RouteOptions[Name]
}

/** Adds to the description of a route who may use it, and the refusal of others. */
function describeRoles(route: RouteOptions, roles: readonly Role[]): void {
  const { schema } = route
  if (schema === undefined || schema.hide === true) return
  const words = roles.map((role) => `\`${role}\``).join(', ')
  const { response } = schema as { readonly response?: Readonly<Record<number, object>> }
  route.schema = {
    ...schema,
    description: `${schema.description ?? schema.summary}\n\nRoles: ${words}.`,
    'x-roles': roles,
    response: addProblem(response ?? {}, 'role_required'),
  } as typeof schema
}

const refusal = (roles: readonly Role[], role: Role): Refused =>
  new Refused({
    code: 'role_required',
    detail: `this request needs the role ${roles.join(' or ')}; the client certificate has the role ${role}`,
  })

const isOfVm = (url: string): boolean => url.startsWith('/v1/vms/:id') || url.startsWith('/ui/console/:id')

/** Returns the refusal of a VM outside the client's scope, in the same words whether or not there is such a VM. */
function scopeRefusal(
  dependencies: ApiDependencies,
  { params }: FastifyRequest,
  { client, roles }: { readonly client: Client | undefined; readonly roles: readonly Role[] },
): Refused | undefined {
  if (client?.role !== 'console') return undefined
  const id = String(Reflect.get(Object(params), 'id')) as VmId
  if (isInScope(dependencies, id, client.scope)) return undefined
  const others = roles.filter((role) => role !== 'console').join(' or ')
  return new Refused({
    code: 'role_required',
    detail: `the client certificate is for ${consolesOf(client.scope)}; for VM ${id} this request needs the role ${others}`,
  })
}

/** Names the one VM of a scope, which its client may know. A label says which VMs are together, so it is not named. */
const consolesOf = (scope: Scope): string =>
  'vm' in scope ? `the console of VM ${scope.vm} alone` : 'the consoles of other VMs'

function isInScope(dependencies: ApiDependencies, id: VmId, scope: Scope): boolean {
  if ('vm' in scope) return id === scope.vm
  const { key, value } = scope.label
  return contextOf(dependencies).store.vms.get(id)?.metadata.labels[key] === value
}
