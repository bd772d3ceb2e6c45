import type { Brand } from '../lib/brand.ts'

/** Chosen by the controller; also the name of every host object that belongs to the VM. */
export type VmId = Brand<string, 'VmId'>
/** One accepted mutation; repeated in each log line that follows from it. */
export type OperationId = Brand<string, 'OperationId'>
/** The numeric Linux user a VM's monitor runs as; unique on the host while the VM exists. */
export type UserId = Brand<number, 'UserId'>
/** Counts real changes of desired state, from 1. */
export type Generation = Brand<number, 'Generation'>
/** Lower-case hexadecimal SHA-256 of an image. */
export type Sha256 = Brand<string, 'Sha256'>
/** A network device name, at most 15 bytes (IFNAMSIZ, netdevice(7)). */
export type DeviceName = Brand<string, 'DeviceName'>
/** The host names that belong to one VM: the user of its monitor, and its tap. */
export type HostIdentity = { readonly userId: UserId; readonly device: DeviceName }
/** `aa:bb:cc:dd:ee:ff`, lower case, unicast. */
export type MacAddress = Brand<string, 'MacAddress'>

export const VM_ID_PATTERN = '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'
export const SHA256_PATTERN = '^[0-9a-f]{64}$'
/** Unicast (lowest bit of the first octet clear), lower case. */
export const MAC_ADDRESS_PATTERN = '^[0-9a-f][02468ace](:[0-9a-f]{2}){5}$'

const vmId = new RegExp(VM_ID_PATTERN)
const sha256 = new RegExp(SHA256_PATTERN)

/** Returns the id if `text` is one, otherwise undefined. */
export const parseVmId = (text: string): VmId | undefined => (vmId.test(text) ? (text as VmId) : undefined)
/** Returns the digest if `text` is one, otherwise undefined. */
export const parseSha256 = (text: string): Sha256 | undefined =>
  sha256.test(text) ? (text as Sha256) : undefined
