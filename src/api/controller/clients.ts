import { err, ok } from '../../lib/result.ts'
import type { VmId } from '../../core/ids.ts'
import type { Admit } from '../listener/transports.ts'

/** Role of a client of this API: the controller may do everything, a reader reads, a console client uses consoles. */
export type Role = 'controller' | 'reader' | 'console'

/** The VMs of a console client: one, or all that have a label. */
export type Scope =
  | { readonly vm: VmId }
  | { readonly label: { readonly key: string; readonly value: string } }

/** A client that is let in, and what it may do. */
export type Client =
  | { readonly role: 'controller' | 'reader' }
  | { readonly role: 'console'; readonly scope: Scope }

/** A client as the configuration has it. A console client has a VM or a label (`env=prod`), the others have neither. */
export type ConfiguredClient = {
  readonly commonName: string
  readonly role: Role
  readonly vm?: string
  readonly label?: string
}

/** Clients by the common names of their certificates. */
export type Clients = ReadonlyMap<string, Client>

/** Returns the clients of a configuration: the controller, and the others. */
export const clientsOf = (controllerName: string, others: readonly ConfiguredClient[]): Clients =>
  new Map([
    [controllerName, { role: 'controller' } satisfies Client],
    ...others.map((one): [string, Client] => [one.commonName, clientOf(one)]),
  ])

function clientOf({ role, vm, label = '' }: ConfiguredClient): Client {
  if (role !== 'console') return { role }
  if (vm !== undefined) return { role, scope: { vm: vm as VmId } }
  const [key = '', value = ''] = label.split('=')
  return { role, scope: { label: { key, value } } }
}

/** Admits only peers with exactly one of these common names. */
export const admitClients =
  (clients: Clients): Admit =>
  (name) =>
    name !== undefined && clients.has(name)
      ? ok(name)
      : err({
          code: 'forbidden',
          detail: 'the common name of the client certificate is not in the configuration of this host',
        })
