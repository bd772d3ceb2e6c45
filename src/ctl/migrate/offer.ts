import { createHash } from 'node:crypto'
import { answered } from '../../client/api-client.ts'
import { limits } from '../../config/limits.ts'
import { CtlError, usageError } from '../ctl-error.ts'
import { exitStatus } from '../exit-status.ts'
import { parseSeconds } from '../units.ts'
import { at, hostOf, lookAt, namesSource } from './hosts.ts'
import type { Answered, Vm } from '../../client/api-client.ts'
import type { Context, Daemon } from '../command.ts'
import type { Departure, Move } from './hosts.ts'

/** An offer at the source, and whether this call has made it. */
export type Offered = {
  readonly migrationId: string
  readonly node: string
  readonly isNew: boolean
  /** The fault that the VM had at the destination when that was asked to try again. */
  readonly earlier?: Vm['observed']['fault']
}

/**
 * Ensures that the source offers the VM to the destination. Reuses an offer to it that is under way. Throws CtlError.
 */
export async function ensureOffer(context: Context, move: Move): Promise<Offered> {
  const { given, shell } = context
  const node = given.text('node') ?? (await hostIdOf(move.destination))
  const here = await lookAt(move.source, move.id)
  if (here === undefined) return alreadyThere(move, node)
  const { desired, observed } = here
  const { migration: departure } = observed
  if (departure === undefined || departure.stage === 'withdrawn') {
    await refuseSameHost(move)
    const offer = { migrationId: idFor(here, node), node, isNew: true }
    const mode = given.isSet('cold') ? 'cold' : 'live'
    const lasts = given.text('expires') ?? String(limits.ctlOfferSecondsDefault)
    await put(move, offer, { mode, expires_at: expiryIn(lasts, shell.nowMs()) })
    return offer
  }
  const { migration: offer } = desired
  if (offer !== undefined && offer.node !== node) throw elsewhere(move, departure.stage, offer.node)
  if (offer?.mode === 'live' && given.isSet('cold')) throw otherwise(move, 'and not cold')
  const reused = { migrationId: departure.migration_id, node, isNew: false }
  const later = given.text('expires')
  if (later !== undefined && offer !== undefined && departure.stage !== 'released')
    await put(move, reused, { mode: offer.mode, expires_at: expiryIn(later, shell.nowMs()) })
  return reused
}

type Terms = Pick<NonNullable<Vm['desired']['migration']>, 'mode' | 'expires_at'>

async function put({ id, source }: Move, { migrationId, node }: Offered, terms: Terms): Promise<void> {
  const body = { migration_id: migrationId, node, ...terms }
  await at(source, answered(source.client.PUT('/v1/vms/{id}/migration', { params: { path: { id } }, body })))
}

/** Withdraws the offer of a VM: the guest stays, or comes back to life, at the source. */
export const withdraw = ({ id, source }: Pick<Move, 'id' | 'source'>): Promise<Answered<Vm>> =>
  at(source, answered<Vm>(source.client.DELETE('/v1/vms/{id}/migration', { params: { path: { id } } })))

/** Returns the id of a host. It is also the name of its node certificate: set-up gives it that name. */
async function hostIdOf(daemon: Daemon): Promise<string> {
  const { data } = await at(daemon, answered(daemon.client.GET('/v1/sync', {})))
  return data.host.id
}

/** Throws CtlError if the destination is the source. A host that cannot look at itself now is not compared. */
async function refuseSameHost({ id, source, destination }: Move): Promise<void> {
  const ids = [source, destination].map((daemon) => hostIdOf(daemon).catch(() => undefined))
  const [here, there] = await Promise.all(ids)
  if (here === undefined || here !== there) return
  throw namesSource(destination, here, `${id} is to leave`)
}

/**
 * Derives a migration id: the same for a repeated call, and another after each offer, because that raises the
 * generation. Generations begin again when the VM comes back to this host.
 * So the id also depends on the migration that brought it.
 */
function idFor({ id, created_at: created, generations, observed }: Vm, node: string): string {
  const cameBy = observed.arrival?.migration_id
  const text = JSON.stringify([id, created, generations.desired, node, cameBy])
  return `move-${createHash('sha256').update(text).digest('hex').slice(0, 16)}`
}

const expiryIn = (lasts: string, nowMs: number): string =>
  new Date(nowMs + parseSeconds(lasts, '--expires') * 1000).toISOString()

/**
 * Returns the offer of a move whose record at the source is gone already; the destination still hears how it ended.
 * Throws if the VM does not come from another host, or did not get away from it.
 */
async function alreadyThere({ id, source, destination }: Move, node: string): Promise<Offered> {
  const there = await lookAt(destination, id)
  const arrival = there?.observed.arrival
  if (arrival !== undefined && arrival.stage !== 'refused')
    return { migrationId: arrival.migration_id, node, isNew: false }
  const has = there === undefined ? 'has none either' : `has one (${there.observed.state})`
  throw new CtlError(`there is no VM ${id} at ${hostOf(source)}`, {
    code: 'not_found',
    status: exitStatus.failed,
    advice: [`${hostOf(destination)} ${has}`],
  })
}

const elsewhere = (move: Move, stage: Departure['stage'], node: string): CtlError =>
  stage === 'released'
    ? new CtlError(`${move.id} has moved to ${node} already`, {
        code: 'vm_migrated',
        status: exitStatus.failed,
        advice: [`to remove its record at ${hostOf(move.source)}: vmhostctl vm rm ${move.id}`],
      })
    : otherwise(move, `to ${node}`)

const otherwise = ({ id }: Move, how: string): CtlError =>
  new CtlError(`${id} is offered already, ${how}`, {
    code: 'vm_migrating',
    status: exitStatus.failed,
    advice: [`to withdraw that offer: vmhostctl vm migrate ${id} --cancel`],
  })

/** The port of the coordination API, unless the configuration of the source names another. */
const COORDINATION_PORT = 9001

/** Returns the address under which the destination reaches the source. Throws a usage error if it cannot be known. */
export function sourceUrl({ given }: Context, { source }: Pick<Move, 'source'>): string {
  const named = given.text('source-url')
  if (named !== undefined) return named
  const host = hostOf(source)
  if (/^(localhost|127\..*|\[::1\])$/.test(host))
    throw usageError(
      `the profile of the source has the address ${host}, at which no other host finds it`,
      `give the source's address in the network of the hosts: --source-url https://10.0.0.1:${COORDINATION_PORT}`,
    )
  return `https://${host}:${COORDINATION_PORT}`
}

/** Checks a value of `--source-url`. Throws a usage error. */
export function parseSourceUrl(text: string, what: string): string {
  const url = URL.parse(text)
  if (url?.protocol === 'https:' && url.pathname === '/' && url.search === '' && url.username === '')
    return url.origin
  throw usageError(
    `${what} ${text} is not the address of a host`,
    `write https://10.0.0.1:${COORDINATION_PORT}`,
  )
}
