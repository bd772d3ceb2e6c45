/** A controller inside the lab, of the daemon of that host. */
import { readFileSync } from 'node:fs'
import { ControllerClient } from '../controller-client.ts'
import type { Answer, Identity, Vm } from '../controller-client.ts'

export type { Answer, Vm } from '../controller-client.ts'

const TLS = '/etc/vmhostd/tls'
export const CURL_TLS = `--cacert ${TLS}/ca.crt --cert ${TLS}/controller.crt --key ${TLS}/controller.key`

const identityOf = (name: string): Identity => ({
  ca: readFileSync(`${TLS}/ca.crt`),
  cert: readFileSync(`${TLS}/${name}.crt`),
  key: readFileSync(`${TLS}/${name}.key`),
})

/** The certificates that set-up made for the controller, for node:tls. */
export const controllerIdentity = (): Identity => identityOf('controller')

/** The certificates that set-up made for this host as a node, for node:tls. */
export const nodeIdentity = (): Identity => identityOf('node')

const here = new ControllerClient('localhost', controllerIdentity)

/** Closes the connection, so that the process can end. */
export const closeController = (): void => here.close()

/** Sends one request; returns the answer whatever its status. Rejects if no answer comes. */
export const call = (method: string, path: string, body?: unknown): Promise<Answer> =>
  here.call(method, path, body)

/** Sends a mutation that must be accepted; throws any other answer. */
export const mutate = (method: string, path: string, body?: unknown): Promise<Vm> =>
  here.mutate(method, path, body)

export const setPower = (id: string, state: string): Promise<Vm> => here.setPower(id, state)

export const getVm = (id: string): Promise<Vm> => here.getVm(id)

/** Waits until the generations are equal and the VM is in `state`, without an error. */
export const settled = (id: string, state: string, boundMs?: number): Promise<Vm> =>
  here.settled(id, state, boundMs)

/** Waits until the daemon has adopted and inspected everything on the host. */
export const ready = (boundMs?: number): Promise<true> => here.ready(boundMs)

/** Deletes a VM and waits until it is gone. */
export const remove = (id: string): Promise<void> => here.remove(id)
