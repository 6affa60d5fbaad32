# zsh reads its files from ZDOTDIR: this folder, each file of which reads the user's own first.
course_profile=$ZDOTDIR
ZDOTDIR=$COURSE_ZDOTDIR
if [[ -r $ZDOTDIR/.zshenv ]]; then . "$ZDOTDIR/.zshenv"; fi
COURSE_ZDOTDIR=$ZDOTDIR
ZDOTDIR=$course_profile
