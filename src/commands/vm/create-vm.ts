import { commitmentOf } from '../../core/capacity/ledger.ts'
import { guestMac } from '../../core/network/tap.ts'
import { given } from '../../lib/given.ts'
import { isObject, parsedJson } from '../../lib/parsed-values.ts'
import { snakeCase } from '../../lib/text.ts'
import { err, ok } from '../../lib/result.ts'
import { freeUserId, refuseIncrease, refuseMonitor } from '../capacity/admit.ts'
import {
  refuseAddresses,
  refuseLonePrefix,
  refuseReadiness,
  refuseSleep,
  withNameServers,
} from './check-network.ts'
import { refuseNewVm } from '../maintenance/refuse-cordoned.ts'
import { refuseImageUrls } from '../outbound/check-urls.ts'
import { refreshSources, refuseSmallDisk } from './image-sources.ts'
import { stillDeleting } from './store-desired.ts'
import type { CreateVm, VmInputs } from '../../core/vm/create.ts'
import type { Desired, Image, ImageRole } from '../../core/desired.ts'
import type { Sha256, UserId, VmId } from '../../core/ids.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { CommandContext, CommandResult } from '../context.ts'

/** Stores a new VM. The same request again returns the existing VM; fresh URLs in it replace the stored ones. */
export function createVm(context: CommandContext, id: VmId, request: CreateVm): CommandResult {
  const { store } = context
  const inputs = inputsOf(request)
  const existing = store.vms.get(id)
  if (existing !== undefined) return repeatCreate(context, existing, { request, inputs })
  const result = store.transaction(() => insert(context, id, { request, inputs }))
  if (result.ok) context.poke(id, 'created')
  return result
}

function insert(
  context: CommandContext,
  id: VmId,
  { request, inputs }: { readonly request: CreateVm; readonly inputs: VmInputs },
): CommandResult {
  const { store, capacity } = context
  const monitor = request.monitor ?? capacity.monitors().default
  const rootfs = digestOf(request, 'rootfs') as Sha256
  const wrong =
    refuseNewVm(context, id) ??
    refuseImageUrls(context, request.image.images, IMAGES) ??
    refuseSmallDisk(context, request.disk, { sha256: rootfs, pointer: '/disk/size_mib' }) ??
    // The host's own choice is never refused: its VMs wait until the program is installed.
    (request.monitor === undefined ? undefined : refuseMonitor(context, monitor, '/monitor')) ??
    refuseSleep(request, '/compute/sleep_after_idle_seconds') ??
    refuseReadiness(request, '/readiness') ??
    refuseLonePrefix(request.network ?? {}, '/network/ipv6_prefix') ??
    refuseAddresses(context, id, request.network ?? {})
  if (wrong !== undefined) return err(wrong)
  const free = freeUserId(store)
  if (!free.ok) return free
  const userId = free.value
  const desired = desiredOf(context, request, userId)
  const commitment = commitmentOf({ desired, monitor }, capacity.memoryTerms())
  const refusal = refuseIncrease(context, commitment)
  if (refusal !== undefined) return err(refusal)
  const record = store.vms.insert({
    id,
    userId,
    monitor,
    desired,
    metadata: request.metadata,
    inputs,
    operationId: context.newOperationId(),
    nowMs: context.now(),
  })
  return ok({ record, changed: true })
}

function repeatCreate(
  context: CommandContext,
  existing: VmRecord,
  { request, inputs }: { readonly request: CreateVm; readonly inputs: VmInputs },
): CommandResult {
  const { vms } = context.store
  const stored = vms.inputs(existing.id)
  if (existing.deleting) return err(stillDeleting(existing.id))
  if (stored.request !== inputs.request) {
    return err({
      code: 'conflict',
      detail: `${existing.id} was created by a request that differs${differenceWords(stored.request, inputs.request)}: delete it first, or choose another id`,
    })
  }
  const refusal = refreshSources(context, existing, { images: request.image.images, under: IMAGES })
  if (refusal !== undefined) return err(refusal)
  return ok({ record: existing, changed: false })
}

/** Place of the images in the request. */
const IMAGES = '/image'

const digestOf = ({ image }: CreateVm, role: ImageRole): Sha256 | undefined =>
  image.images.find((one) => one.role === role)?.sha256

/** Returns the desired state of a new VM. The MAC address follows from the user, unless the request chooses it. */
export function desiredOf(
  { nameServers }: Pick<CommandContext, 'nameServers'>,
  request: CreateVm,
  userId: UserId,
): Desired {
  const initrdSha256 = digestOf(request, 'initrd')
  const image: Image = {
    rootfsSha256: digestOf(request, 'rootfs') as Sha256,
    kernelSha256: digestOf(request, 'kernel') as Sha256,
    ...(initrdSha256 === undefined ? {} : { initrdSha256 }),
    ...(request.image.kernelArguments === undefined
      ? {}
      : { kernelArguments: request.image.kernelArguments }),
  }
  return {
    power: request.power,
    compute: request.compute,
    disk: request.disk,
    image,
    ...(request.network === undefined
      ? {}
      : {
          network: {
            ...withNameServers(request.network, nameServers),
            macAddress: request.network.macAddress ?? guestMac(userId),
          },
        }),
    ...given({ readiness: request.readiness, exit: request.exit }),
  }
}

/** Returns what no answer repeats. */
export function inputsOf(request: CreateVm): VmInputs {
  const { image, userData, ...rest } = request
  const images = image.images.map(({ role, sha256 }) => ({ role, sha256 }))
  return {
    request: canonicalJson({ ...rest, userData, images, kernelArguments: image.kernelArguments }),
    sources: new Map(image.images.map(({ sha256, source }) => [sha256, source])),
    ...(userData === undefined ? {} : { userData }),
    sshAuthorizedKeys: request.sshAuthorizedKeys,
  }
}

/** JSON with the members of every object in one order, so that equal values are equal text. */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, member: unknown) =>
    isObject(member)
      ? Object.fromEntries(Object.entries(member).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  )
}

/** Members whose own members are compared one by one. */
const OPEN: ReadonlySet<string> = new Set(['compute', 'disk', 'network', 'metadata', 'exit'])

/**
 * Names the members in which two requests to create a VM differ, as the API calls them and without their values: user
 * data and keys are secret. Both are in canonical JSON, as they are stored; of one in another form, such as with other
 * white space, nothing may be named.
 */
function differenceWords(one: string, other: string): string {
  const [a, b] = [membersOf(one), membersOf(other)]
  if (a === undefined || b === undefined) return ''
  const names = [...new Set([...a.keys(), ...b.keys()])].filter((name) => a.get(name) !== b.get(name))
  return names.length === 0 ? '' : ` in ${names.join(', ')}`
}

function membersOf(text: string): ReadonlyMap<string, string> | undefined {
  // The stored request of a VM that came from another host is what that host sent, and may not be JSON.
  const request = parsedJson(text)
  if (!isObject(request)) return undefined
  const { images, ...rest } = request
  if (!Array.isArray(images) || !images.every(isObject)) return undefined
  const members = Object.entries(rest).flatMap(([name, value]) =>
    OPEN.has(name) && isObject(value)
      ? Object.entries(value).map(([member, inner]): [string, unknown] => [`${name}.${member}`, inner])
      : [[name, value] as [string, unknown]],
  )
  const roles = images.map((image): [string, unknown] => [`image.${String(image['role'])}`, image])
  return new Map([...members, ...roles].map(([name, value]) => [wireName(name), JSON.stringify(value)]))
}

/** Returns the name as the API has it: the members of these two are members of the request itself. */
const wireName = (name: string): string => snakeCase(name.replace(/^(metadata|exit)\./, ''))
