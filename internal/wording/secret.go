package wording

import "strings"

// HideSecrets returns a URL, or a list of URLs, without user names and passwords. It hides all text before the last @,
// because a password may hold any character.
func HideSecrets(text string) string {
	scheme, at := strings.Index(text, "://"), strings.LastIndex(text, "@")
	if scheme < 0 || at < scheme {
		return text
	}
	return text[:scheme] + "://***" + text[at:]
}
