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
  app.addHook('onRoute', (route) => {
    for (const method of [route.method].flat()) {
      const roles = rolesFor(method, route.url)
      if (method !== 'HEAD') describeRoles(route, roles)
    }
  })
  app.addHook('onRequest', async (request) => {
    const { clients } = dependencies
    const client = clients === undefined ? CONTROLLER : clients.get(request.peerName)
    if (client === undefined) throw new Error('a peer was admitted that is not among the clients')
    request.peer = { ...request.peer, role: client.role }
    const { method, url = '' } = request.routeOptions
    const roles = rolesFor([method].flat()[0] ?? '', url)
    if (!roles.includes(client.role)) throw refusal(roles, client.role)
    if (client.role === 'console' && isOfVm(url)) checkScope(dependencies, request, client.scope)
  })
  // During a long poll the VM may have left the scope.
  app.addHook('preSerialization', async (request, { statusCode }, payload) => {
    const client = dependencies.clients?.get(request.peerName)
    const { url = '' } = request.routeOptions
    if (client?.role === 'console' && isOfVm(url) && statusCode < 400)
      checkScope(dependencies, request, client.scope)
    return payload
  })
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

/** Refuses a VM outside the scope, in the same words whether or not there is such a VM. */
function checkScope(dependencies: ApiDependencies, { params }: FastifyRequest, scope: Scope): void {
  const id = String(Reflect.get(Object(params), 'id')) as VmId
  if (isInScope(dependencies, id, scope)) return
  throw new Refused({
    code: 'role_required',
    detail: `for VM ${id} this request needs the role controller: the client certificate is for the console of other VMs`,
  })
}

function isInScope(dependencies: ApiDependencies, id: VmId, scope: Scope): boolean {
  if ('vm' in scope) return id === scope.vm
  const { key, value } = scope.label
  return contextOf(dependencies).store.vms.get(id)?.metadata.labels[key] === value
}
