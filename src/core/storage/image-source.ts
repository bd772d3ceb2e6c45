import type { SignedUrl } from './signed-url.ts'

/** The source of an image: `https:` (usually signed), or `file:` inside the configured local directory. */
export type ImageSource = { readonly url: SignedUrl }
