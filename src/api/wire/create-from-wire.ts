import { limits } from '../../config/limits.ts'
import { SignedUrl } from '../../core/storage/signed-url.ts'
import { err, ok } from '../../lib/result.ts'
import { guestIpv4, guestIpv6 } from './guest-address.ts'
import type { CreateVm } from '../../core/vm/create.ts'
import type { ImageRole } from '../../core/vm/desired.ts'
import type { MacAddress, Sha256 } from '../../core/vm/ids.ts'
import type { Complaint } from '../../lib/schema-check.ts'
import type { Result } from '../../lib/result.ts'
import type { CreateVmWire } from './requests.ts'

type ImageWire = CreateVmWire['image']['rootfs']

/**
 * The request in the words of the domain, or what the schema could not see to be wrong. From here on a URL is a
 * {@link SignedUrl} and cannot be printed.
 */
export function createFromWire(body: CreateVmWire): Result<CreateVm, readonly Complaint[]> {
  const complaints = [...sizeComplaints(body), ...imagesOf(body).flatMap(urlComplaints)]
  const network = networkFromWire(body.network, complaints)
  if (complaints.length > 0) return err(complaints)
  const { image } = body
  return ok({
    power: body.power,
    compute: {
      cpuMillicores: body.compute.cpu_millicores,
      memoryMib: body.compute.memory_mib,
      sleepAfterIdleSeconds: body.compute.sleep_after_idle_seconds,
    },
    disk: { sizeMib: body.disk.size_mib },
    image: {
      images: imagesOf(body).map(([role, { url, sha256 }]) => ({
        role,
        sha256: sha256 as Sha256,
        source: { url: new SignedUrl(url) },
      })),
      ...(image.kernel_arguments === undefined ? {} : { kernelArguments: image.kernel_arguments }),
    },
    ...(network === undefined ? {} : { network }),
    ...(body.user_data === undefined ? {} : { userData: body.user_data }),
    sshAuthorizedKeys: body.ssh_authorized_keys ?? [],
  })
}

function imagesOf({ image }: CreateVmWire): (readonly [ImageRole, ImageWire])[] {
  const images: (readonly [ImageRole, ImageWire])[] = [
    ['rootfs', image.rootfs],
    ['kernel', image.kernel],
  ]
  if (image.initrd !== undefined) images.push(['initrd', image.initrd])
  return images
}

function urlComplaints([role, { url }]: readonly [ImageRole, ImageWire]): Complaint[] {
  const complain = (detail: string): Complaint[] => [
    { pointer: `/image/${role}/url`, code: 'malformed', detail },
  ]
  if (!URL.canParse(url)) return complain('must be a valid URL')
  const { username, password } = new URL(url)
  // fetch() refuses such a URL, hours later and in other words.
  return username === '' && password === '' ? [] : complain('must not carry a user name or password')
}

/** The schema counts characters; the limits are bytes. */
function sizeComplaints(body: CreateVmWire): Complaint[] {
  const tooLong = (pointer: string, text: string, bytesMax: number): Complaint[] =>
    Buffer.byteLength(text) <= bytesMax
      ? []
      : [{ pointer, code: 'wrong_length', detail: `must have at most ${bytesMax} bytes as UTF-8` }]
  return [
    ...tooLong('/user_data', body.user_data ?? '', limits.userDataBytesMax),
    ...(body.ssh_authorized_keys ?? []).flatMap((key, index) =>
      tooLong(`/ssh_authorized_keys/${index}`, key, limits.sshKeyBytesMax),
    ),
    ...imagesOf(body).flatMap(([role, { url }]) => tooLong(`/image/${role}/url`, url, limits.urlBytesMax)),
  ]
}

function networkFromWire(network: CreateVmWire['network'], complaints: Complaint[]): CreateVm['network'] {
  if (network === undefined) return undefined
  const address = (member: 'ipv4_address' | 'ipv6_address', parse: (text: string) => string | undefined) => {
    const text = network[member]
    const parsed = text === undefined ? undefined : parse(text)
    if (text !== undefined && parsed === undefined) {
      complaints.push({
        pointer: `/network/${member}`,
        code: 'not_allowed',
        detail: 'must be a unicast address that is neither loopback nor link-local',
      })
    }
    return parsed
  }
  const ipv4Address = address('ipv4_address', guestIpv4)
  const ipv6Address = address('ipv6_address', guestIpv6)
  return {
    ...(network.mac_address === undefined ? {} : { macAddress: network.mac_address as MacAddress }),
    ...(ipv4Address === undefined ? {} : { ipv4Address }),
    ...(ipv6Address === undefined ? {} : { ipv6Address }),
  }
}
