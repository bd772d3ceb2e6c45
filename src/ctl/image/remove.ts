import { answered } from '../../client/api-client.ts'
import { CtlError, usageError } from '../ctl-error.ts'
import { eachNamed } from '../several.ts'
import { exitStatus } from '../exit-status.ts'
import { DIGEST_SHOWN, listImages } from './list.ts'
import type { Command, Context } from '../command.ts'

const DIGEST_CHARACTERS = 64
const PREFIX_CHARACTERS_MIN = 8

export const imageRemoveCommand: Command = {
  words: ['image', 'rm'],
  summary: 'remove images that no VM is made of',
  description:
    'An image is named by its SHA-256, or by the first 8 characters of it or more. One that a VM is made of is refused. The ' +
    'host removes it as soon as it can; vmhostctl image ls shows it until then. Images that have not been used for long go by themselves: storage.image_idle_hours in the configuration of the host.',
  operand: { placeholder: 'SHA256', many: true, completes: 'image' },
  options: [],
  examples: [
    ['9f86d081884c', 'the one that vmhostctl image ls shows so'],
    ['9f86d081884c 60303ae22b99', 'both'],
  ],
  run: (context) =>
    eachNamed(context, async (name) => {
      const sha256 = await digestOf(context, name)
      const deleting = context.client().DELETE('/v1/images/{sha256}', { params: { path: { sha256 } } })
      const { data } = await answered(deleting)
      context.print(data, () => `${sha256.slice(0, DIGEST_SHOWN)}: is being removed`)
      return exitStatus.done
    }),
}

/**
 * Returns the digest that a name means. Takes a whole digest as it is, so a repeated removal is safe. Throws if the
 * beginning of a digest matches no image, or several.
 */
async function digestOf({ client }: Context, name: string): Promise<string> {
  const digest = name.toLowerCase()
  if (
    !/^[0-9a-f]+$/.test(digest) ||
    digest.length < PREFIX_CHARACTERS_MIN ||
    digest.length > DIGEST_CHARACTERS
  ) {
    throw usageError(
      `${name} names no image`,
      `write its SHA-256, or the first ${PREFIX_CHARACTERS_MIN} characters of it or more`,
    )
  }
  if (digest.length === DIGEST_CHARACTERS) return digest
  const found = (await listImages(client())).filter(({ sha256 }) => sha256.startsWith(digest))
  const [only, ...others] = found
  if (only !== undefined && others.length === 0) return only.sha256
  throw new CtlError(only === undefined ? `there is no image ${name}` : `${name} names several images`, {
    code: only === undefined ? 'not_found' : 'ambiguous',
    status: exitStatus.failed,
    advice:
      only === undefined ? ['vmhostctl image ls shows those there are'] : found.map(({ sha256 }) => sha256),
  })
}
