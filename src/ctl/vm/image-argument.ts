import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { CtlError, usageError } from '../ctl-error.ts'
import { exitStatus } from '../exit-status.ts'
import type { CreateVm } from '../../client/api-client.ts'

export type Image = CreateVm['image']['rootfs']

const FORM =
  'write https://…#sha256=DIGEST, with the digest that sha256sum prints, or the path of a file on the host'

/**
 * Parses `URL#sha256=DIGEST`, or a file: its path or `file:` URL, whose digest is computed here. The fragment of a URL
 * is never sent (RFC 3986, 3.5), so the digest does not change the URL that was signed. Throws CtlError.
 */
export async function parseImage(text: string, option: string): Promise<Image> {
  const [address, fragment] = split(text)
  const sha256 = fragment === undefined ? undefined : digestOf(fragment, option)
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(address)?.[1]?.toLowerCase()
  if (scheme === 'https' || scheme === 'http') {
    if (sha256 === undefined) throw usageError(`${option} needs the digest of the image behind its URL`, FORM)
    return { url: address, sha256 }
  }
  if (scheme !== undefined && scheme !== 'file')
    throw usageError(`${option}: no image comes by ${scheme}:`, FORM)
  const file = scheme === 'file' ? pathOf(address, option) : resolve(address)
  return { url: pathToFileURL(file).href, sha256: sha256 ?? (await digestOfFile(file, option)) }
}

function split(text: string): [address: string, fragment: string | undefined] {
  const at = text.lastIndexOf('#')
  return at === -1 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)]
}

function digestOf(fragment: string, option: string): string {
  const [, digest] = /^sha256[=:]([0-9a-f]{64})$/i.exec(fragment) ?? []
  if (digest === undefined) throw usageError(`${option}: what follows # is not sha256=DIGEST`, FORM)
  return digest.toLowerCase()
}

function pathOf(url: string, option: string): string {
  try {
    return fileURLToPath(url)
  } catch (cause) {
    throw new CtlError(`${option}: this is not a file: URL of one host`, {
      code: 'usage',
      status: exitStatus.usage,
      advice: ['write file:///srv/images/root.img, or the path alone'],
      cause,
    })
  }
}

async function digestOfFile(path: string, option: string): Promise<string> {
  const hash = createHash('sha256')
  try {
    await pipeline(createReadStream(path), hash)
  } catch (cause) {
    throw new CtlError(`${option}: the image cannot be read for its digest`, {
      code: 'usage',
      status: exitStatus.usage,
      advice: ['where it lies on another host, give its digest: file:///path#sha256=DIGEST'],
      cause,
    })
  }
  return hash.digest('hex')
}
