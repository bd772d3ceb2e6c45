import { limits } from '../../config/limits.ts'
import { SignedUrl } from '../../core/outbound/signed-url.ts'
import { given } from '../../lib/given.ts'
import { err, ok } from '../../lib/result.ts'
import { computeFromWire, diskFromWire } from './shape-from-wire.ts'
import { networkFromWire } from './network-from-wire.ts'
import { textComplaints, urlComplaints } from './url-from-wire.ts'
import type { CreateVm } from '../../core/vm/create.ts'
import type { ImageRole } from '../../core/desired.ts'
import type { Sha256 } from '../../core/ids.ts'
import type { Complaint } from '../../lib/schema-check.ts'
import type { Result } from '../../lib/result.ts'
import type { CreateVmWire } from './requests.ts'

type ImageWire = CreateVmWire['image']['rootfs']

/**
 * Translates the request to the domain, or returns the errors that the schema cannot find. From here on a URL is a
 * {@link SignedUrl} and cannot be printed.
 */
export function createFromWire(body: CreateVmWire): Result<CreateVm, readonly Complaint[]> {
  const complaints = [
    ...freeTextComplaints(body),
    ...imagesOf(body).flatMap(([role, { url }]) => urlComplaints(`/image/${role}/url`, url)),
  ]
  const network =
    body.network === undefined ? undefined : networkFromWire(body.network, '/network', complaints)
  if (complaints.length > 0) return err(complaints)
  const { image } = body
  return ok({
    power: body.power,
    compute: computeFromWire(body.compute),
    disk: diskFromWire(body.disk),
    metadata: { labels: body.labels ?? {}, protected: body.protected ?? false },
    image: {
      images: imagesOf(body).map(([role, { url, sha256 }]) => ({
        role,
        sha256: sha256 as Sha256,
        source: { url: new SignedUrl(url) },
      })),
      ...given({ kernelArguments: image.kernel_arguments }),
    },
    ...given({ network, userData: body.user_data }),
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

function freeTextComplaints(body: CreateVmWire): Complaint[] {
  return [
    ...textComplaints('/user_data', body.user_data ?? '', limits.userDataBytesMax),
    ...(body.ssh_authorized_keys ?? []).flatMap((key, index) =>
      textComplaints(`/ssh_authorized_keys/${index}`, key, limits.sshKeyBytesMax),
    ),
  ]
}
